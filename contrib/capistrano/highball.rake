# frozen_string_literal: true

# Restarts Highball after a deploy. Copy it to lib/capistrano/tasks/. See docs/capistrano.md.
#
# The deploy fails, with the reason, if the new code does not load; the old code then keeps serving. Highball runs under
# systemd as highball@APPLICATION (contrib/systemd); the user who deploys is the application's user.
namespace :highball do
  desc "Load the new code, and wait until it serves"
  task :restart do
    on roles(:app) do
      execute :highball, :restart, current_path
    end
  end

  desc "Read the settings again"
  task :reload do
    on roles(:app) do
      execute :highball, :reload, current_path
    end
  end

  desc "Show processes, threads, the queue and counters"
  task :status do
    on roles(:app) do |host|
      info "#{host}\n#{capture(:highball, :status, current_path)}"
    end
  end

  desc "Load the new release once before it is published, and stop the deploy if that fails"
  task :check do
    on roles(:app) do
      execute :highball, :check, release_path, "--environment", fetch(:rails_env, "production")
    end
  end
end

after "deploy:updated", "highball:check"
after "deploy:published", "highball:restart"
