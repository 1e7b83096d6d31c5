# frozen_string_literal: true

# What is sold.
class Item < ApplicationRecord
  belongs_to :product
end
