# frozen_string_literal: true

# A page of a wiki.
class Page < ApplicationRecord
  belongs_to :web
  has_many :wiki_references, dependent: :destroy
end
