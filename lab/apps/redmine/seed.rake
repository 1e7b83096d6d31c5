# frozen_string_literal: true

# Fills a new Redmine with projects and issues, the same in every instance, so that its pages are as large as in real use.
# `install` copies this file into the instance and runs it once, after redmine:load_default_data.

namespace :highball do
  desc 'Seed projects and issues, open the admin account, raise the attachment limit'
  task seed: :environment do
    areas = %w[Timetable Signals Depot Freight Ticketing Stations Track Rolling\ stock]
    parts = %w[Planning Operations Maintenance]
    verbs = ['Replace', 'Inspect', 'Document', 'Measure', 'Repair', 'Order', 'Paint', 'Test']
    things = ['the points at platform %d', 'relay cabinet %d', 'axle counter %d', 'the buffers of track %d',
              'lamp post %d', 'the departure board in hall %d', 'brake hose batch %d']
    sentence = 'The line must stay open to traffic while the work goes on, and the night shift hands over a written report.'

    Setting.attachment_max_size = (64 * 1024).to_s # KiB; the default of 5 MiB refuses the 20 MB of the end-to-end test
    Setting.app_title = 'Redmine on Highball'
    admin = User.find_by!(login: 'admin')
    admin.update_columns(must_change_passwd: false, status: User::STATUS_ACTIVE, language: 'en')
    User.current = admin

    trackers = Tracker.sorted.to_a
    priorities = IssuePriority.active.to_a
    number = 0
    add_issues = lambda do |project, count|
      count.times do
        number += 1
        Issue.create!(project: project, tracker: trackers[number % trackers.size], author: admin,
                      priority: priorities[number % priorities.size], notify: false,
                      subject: "#{verbs[number % verbs.size]} #{format(things[number % things.size], number)}",
                      description: "h2. Task #{number}\n\n* #{sentence}\n* See ##{[number - 1, 1].max}.\n\n#{sentence * 3}",
                      start_date: Date.new(2024, 1, 1) + (number % 300), done_ratio: number % 11 * 10)
      end
    end
    add_project = lambda do |name, parent|
      project = Project.new(name: name, identifier: name.parameterize, is_public: true, parent: parent, trackers: trackers,
                            description: "*#{name}*: #{sentence * 2}\n\n# plan\n# build\n# run",
                            enabled_module_names: Redmine::AccessControl.available_project_modules)
      project.save!
      add_issues.call(project, 4)
      project
    end
    ActiveRecord::Base.transaction do
      areas.each do |area|
        top = add_project.call(area, nil)
        parts.each { |part| add_project.call("#{area} #{part}", top) }
      end
    end
    puts "seeded #{Project.count} projects, #{Issue.count} issues"
  end
end
