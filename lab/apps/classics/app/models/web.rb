# frozen_string_literal: true

# One of the wiki's books.
class Web < ApplicationRecord
  has_many :pages, -> { order(:name) }, dependent: :destroy, inverse_of: :web
end
