# frozen_string_literal: true

# The page of the 2014 study of Passenger 5 and Unicorn: Sinatra, a list of a thousand items rendered
# by ERB, about 36 KB. The template's indentation is the study's, for it is most of the page.
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
