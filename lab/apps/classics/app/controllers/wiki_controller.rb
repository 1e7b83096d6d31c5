# frozen_string_literal: true

# The wiki: every page of its only web, and those that are missing.
class WikiController < ApplicationController
  def list
    @web = Web.find_by!(address: 'wiki')
    @pages = @web.pages.includes(:wiki_references).to_a
    @wanted = WikiReference.wanted_in(@web)
    referenced = @pages.flat_map { |page| page.wiki_references.map(&:referenced_name) }.to_set
    @orphans = @pages.reject { |page| referenced.include?(page.name) }
  end
end
