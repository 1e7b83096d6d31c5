# frozen_string_literal: true

# The shop: a category with its products.
class ShopController < ApplicationController
  def category
    @categories = Category.order(:name)
    @category = Category.find_by!(code: params.require(:category))
    @products = @category.products.includes(:items)
  end
end
