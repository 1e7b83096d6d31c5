# frozen_string_literal: true

# The page of the 2014 study of Passenger 5 and Unicorn: Sinatra, a list of a thousand items rendered
# by ERB. The code is the study's to the letter: its indentation is most of the page. That had 36 KB then; Erubi, which
# Debian's Sinatra renders with, leaves out the lines that hold nothing but tags, which makes it 25 KB.
require 'sinatra/base'

class App < Sinatra::Base
  set :logging, false

  get '/' do
    @foos = (1..1_000)

    erb <<-EOF
    <html>
      <body>
        <ul>
          <% @foos.each do |foo| %>
            <li><%= foo %></li>
          <% end %>
        </ul>
      </body>
    </html>
    EOF
  end
end

run App
