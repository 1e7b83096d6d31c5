# frozen_string_literal: true

# A link in a page to another one, which may not be there yet.
class WikiReference < ApplicationRecord
  belongs_to :page

  def self.wanted_in(web)
    joins(:page).where(pages: { web_id: web.id })
                .where.not(referenced_name: web.pages.unscope(:order).select(:name))
                .distinct.order(:referenced_name).pluck(:referenced_name)
  end
end
