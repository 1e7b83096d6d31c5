# frozen_string_literal: true

# A title that a user gets with so many posts.
class Rank < ApplicationRecord
  def self.of(user, ranks)
    ranks.reverse.find { |rank| user.posts_count >= rank.min_posts }
  end
end
