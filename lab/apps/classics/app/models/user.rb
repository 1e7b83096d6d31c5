# frozen_string_literal: true

# A member of the forum.
class User < ApplicationRecord
  has_many :topics, dependent: :destroy
  has_many :posts, dependent: :destroy

  scope :by_login, -> { order(:login) }
  scope :last_seen, -> { order(seen_at: :desc) }
end
