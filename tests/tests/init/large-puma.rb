# A configuration that has grown over years: hooks, sockets, time-outs, a constant and a method of its own.
APP_ROOT = File.expand_path("..", __dir__)

def per_core(count)
  [1, count * 2].max
end

directory APP_ROOT
rackup "#{APP_ROOT}/other.ru"
environment "staging"
workers per_core(2)
threads 1, 16
bind "unix://#{APP_ROOT}/tmp/sockets/puma.sock?umask=0117&backlog=64"
bind "tcp://127.0.0.1:9292"
pidfile "#{APP_ROOT}/tmp/pids/puma.pid"
state_path "#{APP_ROOT}/tmp/pids/puma.state"
stdout_redirect "#{APP_ROOT}/log/puma.log", "#{APP_ROOT}/log/puma.err", true
persistent_timeout 20
first_data_timeout 15
worker_boot_timeout 120
force_shutdown_after 25
quiet
preload_app!

on_worker_boot do
  raise "hooks are not run"
end

before_fork { raise "hooks are not run" }

lowlevel_error_handler { |error| [500, {}, ["#{error.class}"]] }
activate_control_app "unix:///tmp/pumactl.sock", { auth_token: "secret" }
threads 2, 4
made_up_call :a, b: 1
