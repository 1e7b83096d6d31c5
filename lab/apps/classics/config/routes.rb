# frozen_string_literal: true

Rails.application.routes.draw do
  root 'blog#index'
  get 'shop/viewCategory.shtml', to: 'shop#category', as: :shop_category
  get 'users', to: 'users#index'
  get 'wiki/list', to: 'wiki#list'
end
