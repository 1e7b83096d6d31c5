# frozen_string_literal: true

# A shelf of the shop.
class Category < ApplicationRecord
  has_many :products, -> { order(:code) }, dependent: :destroy, inverse_of: :category
end
