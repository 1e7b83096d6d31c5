# frozen_string_literal: true

# A kind of animal in the shop; its items are what is sold.
class Product < ApplicationRecord
  belongs_to :category
  has_many :items, -> { order(:code) }, dependent: :destroy, inverse_of: :product

  def price
    items.map(&:price).min
  end

  def in_stock?
    items.any? { |item| item.quantity.positive? }
  end
end
