# frozen_string_literal: true

# The blog, cached semi-statically as Typo did: a whole page is kept once it was rendered, and Rails answers with it after one
# look into the cache, without database and templates.
class BlogController < ApplicationController
  before_action :answer_from_cache
  after_action :keep_in_cache

  def index
    @articles = Article.latest.limit(4)
    @months = Article.per_month
    @comments = Comment.latest.includes(:article).limit(5)
  end

  private

  def answer_from_cache
    page = Rails.cache.read(cache_key)
    render html: page.html_safe, layout: false if page
  end

  # Runs only for a page that was rendered: where a before_action answers, later callbacks don't run.
  def keep_in_cache
    Rails.cache.write(cache_key, response.body)
  end

  def cache_key
    "page#{request.path}"
  end
end
