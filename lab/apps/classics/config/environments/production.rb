# frozen_string_literal: true

Rails.application.configure do
  config.cache_classes = true
  config.eager_load = true
  config.consider_all_requests_local = false
  config.action_controller.perform_caching = true
  # In files, as Typo's: all worker processes share it.
  config.cache_store = :file_store, Rails.root.join('tmp/cache')
  config.active_record.dump_schema_after_migration = false
  # Errors only: a log of every request would measure the disk.
  config.log_level = :warn
end
