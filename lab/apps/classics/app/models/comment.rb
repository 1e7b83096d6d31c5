# frozen_string_literal: true

# What a reader wrote below an article.
class Comment < ApplicationRecord
  belongs_to :article, counter_cache: true

  scope :latest, -> { order(created_at: :desc) }
end
