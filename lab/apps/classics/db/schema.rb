# frozen_string_literal: true

ActiveRecord::Schema.define(version: 2009_11_01_000000) do
  # The blog.
  create_table :articles, force: true do |t|
    t.string :title, null: false
    t.string :permalink, null: false, index: { unique: true }
    t.string :author, null: false
    t.text :body, null: false
    t.integer :comments_count, null: false, default: 0
    t.datetime :published_at, null: false, index: true
  end

  create_table :comments, force: true do |t|
    t.belongs_to :article, null: false
    t.string :author, null: false
    t.text :body, null: false
    t.datetime :created_at, null: false, index: true
  end

  # The shop.
  create_table :categories, force: true do |t|
    t.string :code, null: false, index: { unique: true }
    t.string :name, null: false
    t.string :description, null: false
  end

  create_table :products, force: true do |t|
    t.belongs_to :category, null: false
    t.string :code, null: false, index: { unique: true }
    t.string :name, null: false
    t.string :description, null: false
  end

  create_table :items, force: true do |t|
    t.belongs_to :product, null: false
    t.string :code, null: false, index: { unique: true }
    t.string :attribute_text, null: false
    t.decimal :price, precision: 8, scale: 2, null: false
    t.integer :quantity, null: false
  end

  # The forum.
  create_table :ranks, force: true do |t|
    t.string :title, null: false
    t.integer :min_posts, null: false
  end

  create_table :users, force: true do |t|
    t.string :login, null: false, index: { unique: true }
    t.string :location
    t.integer :posts_count, null: false, default: 0
    t.datetime :created_at, null: false
    t.datetime :seen_at, null: false, index: true
  end

  create_table :topics, force: true do |t|
    t.belongs_to :user, null: false
    t.string :title, null: false
    t.datetime :created_at, null: false
  end

  create_table :posts, force: true do |t|
    t.belongs_to :user, null: false
    t.belongs_to :topic, null: false
    t.text :body, null: false
    t.datetime :created_at, null: false
  end

  # The wiki.
  create_table :webs, force: true do |t|
    t.string :name, null: false
    t.string :address, null: false, index: { unique: true }
  end

  create_table :pages, force: true do |t|
    t.belongs_to :web, null: false
    t.string :name, null: false
    t.string :author, null: false
    t.text :content, null: false
    t.datetime :revised_at, null: false
    t.index %i[web_id name], unique: true
  end

  create_table :wiki_references, force: true do |t|
    t.belongs_to :page, null: false
    t.string :referenced_name, null: false, index: true
  end
end
