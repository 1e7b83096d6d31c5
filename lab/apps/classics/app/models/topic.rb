# frozen_string_literal: true

# A thread of the forum.
class Topic < ApplicationRecord
  belongs_to :user
  has_many :posts, dependent: :destroy
end
