# Runs a database server as long as the lab lives: $1 is its folder, the rest its command. Standard input is a pipe from the lab.
# A line on it asks for the server's end; its end without a line means that the lab is gone, and then the folder goes too.
exec 3<&0 </dev/null
folder=$1
shift
"$@" 3<&- &
server=$!
{
    read -r order <&3 || : >"$folder/abandoned"
    kill -TERM "$server"
} 2>/dev/null &
reader=$!
exec 3<&-
wait "$server"
status=$?
kill "$reader" 2>/dev/null
[ ! -e "$folder/abandoned" ] || rm -rf -- "$folder"
exit "$status"
