# frozen_string_literal: true

# A post in the blog.
class Article < ApplicationRecord
  has_many :comments, dependent: :destroy

  scope :latest, -> { order(published_at: :desc) }

  def self.per_month
    group(Arel.sql('SUBSTR(published_at, 1, 7)')).count.sort.reverse
  end
end
