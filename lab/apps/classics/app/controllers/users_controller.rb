# frozen_string_literal: true

# The forum's members.
class UsersController < ApplicationController
  PER_PAGE = 14

  def index
    @users = User.last_seen.limit(PER_PAGE).offset(PER_PAGE * (params.fetch(:page, 1).to_i - 1))
    @ranks = Rank.order(:min_posts).to_a
    @counts = { 'members' => User.count, 'topics' => Topic.count, 'posts' => Post.count }
    @newest = User.order(:created_at, :id).last
  end
end
