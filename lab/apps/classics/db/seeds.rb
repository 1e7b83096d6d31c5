# frozen_string_literal: true

# The same rows in every instance: names and dates come from lists and counters, never from chance or the clock.

# A different element of the list for each number, in an order that doesn't look like the list's.
pick = ->(list, number) { list[(number * 7 + number / list.size) % list.size] }
opened = Time.utc(2008, 3, 1, 9)
people = %w[ada basil cora dunstan edith fergus greta hugo iris jasper kitty lionel mabel ned olive percy queenie rupert
            sybil thaddeus una victor winnie xavier yvonne zachary]

ActiveRecord::Base.transaction do
  # The blog.
  subjects = ['The kettle in the signal box', 'Twelve levers and one duster', 'A goods train on a Sunday', 'Snow at the summit',
              'The lamp man retires', 'How to read a block bell', 'Paint for the running-in board', 'Rabbits in the four-foot']
  sentences = ['The morning began with frost on the rodding and a bell code that nobody had sent for years.',
               'Every lever has its own voice, and after a winter one hears which of them wants oil.',
               'The driver leaned out, said that he was early, and was told that early is a kind of late.',
               'We wrote it into the train register in ink, since pencil is for people who expect to be wrong.',
               'By noon the distant was off, the kettle was on, and the line was ours again.']
  40.times do |number|
    title = subjects[number % subjects.size] + (number < subjects.size ? '' : ", part #{number / subjects.size + 1}")
    text = sentences.rotate(number).each_slice(3).map { |slice| slice.join(' ') }.join("\n\n")
    article = Article.create!(title: title, permalink: title.parameterize, author: pick.(people, number % 3).capitalize,
                              body: text, published_at: opened + number * 9.days)
    (number % 7).times do |comment|
      article.comments.create!(author: pick.(people, number + comment).capitalize, body: pick.(sentences, comment),
                               created_at: article.published_at + (comment + 1).hours)
    end
  end

  # The shop.
  shelves = {
    'BIRDS' => ['Birds', 'For a house that is too quiet.', { 'AV-CB-01' => 'Amazon Parrot', 'AV-SB-02' => 'Finch' }],
    'CATS' => ['Cats', 'They choose, you pay.', { 'FL-DLH-02' => 'Persian', 'FL-DSH-01' => 'Manx' }],
    'DOGS' => ['Dogs', 'Various breeds, for every size of garden and of sofa.',
               { 'K9-BD-01' => 'Bulldog', 'K9-CW-01' => 'Chihuahua', 'K9-DL-01' => 'Dalmatian', 'K9-GR-03' => 'Greyhound',
                 'K9-PO-02' => 'Poodle', 'K9-RT-01' => 'Golden Retriever', 'K9-RT-02' => 'Labrador Retriever',
                 'K9-SD-05' => 'Sheepdog', 'K9-SP-06' => 'Cocker Spaniel', 'K9-TR-04' => 'Border Terrier', 'K9-WH-07' => 'Whippet' }],
    'FISH' => ['Fish', 'Fresh water and salt water.',
               { 'FI-FW-01' => 'Koi', 'FI-FW-02' => 'Goldfish', 'FI-SW-01' => 'Angelfish', 'FI-SW-02' => 'Tiger Shark' }],
    'REPTILES' => ['Reptiles', 'Calm company.', { 'RP-LI-02' => 'Iguana', 'RP-SN-01' => 'Rattlesnake' }]
  }
  habits = ['Friendly from England', 'Great companion on long walks', 'Sleeps through fireworks', 'Good with children',
            'Needs a brush and patience', 'Has opinions about the post']
  stock = 0
  shelves.each do |code, (name, description, products)|
    category = Category.create!(code: code, name: name, description: description)
    products.each_with_index do |(product_code, product_name), at|
      product = category.products.create!(code: product_code, name: product_name, description: pick.(habits, at))
      %w[Adult\ male Adult\ female Young].each do |attribute|
        stock += 1
        product.items.create!(code: "EST-#{stock}", attribute_text: attribute, price: 5.5 + stock * 37 % 250, quantity: stock * 11 % 9)
      end
    end
  end

  # The forum.
  [['Passenger', 0], ['Porter', 10], ['Guard', 20], ['Stationmaster', 30]].each do |title, posts|
    Rank.create!(title: title, min_posts: posts)
  end
  towns = ['York', 'Crewe', 'Swindon', 'Inverness', 'Penzance', 'Didcot', 'Carlisle']
  users = Array.new(130) do |number|
    User.create!(login: "#{pick.(people, number)}#{number}", location: pick.(towns, number),
                 created_at: opened + number * 2.days, seen_at: opened + 300.days + number * 37 % 130 * 53.minutes)
  end
  60.times do |number|
    topic = Topic.create!(user: pick.(users, number), title: "#{pick.(subjects, number)}?", created_at: opened + number * 5.days)
    (1 + number * 5 % 60).times do |reply|
      topic.posts.create!(user: users[(number + reply * reply) % users.size], body: pick.(sentences, reply),
                          created_at: topic.created_at + reply.hours)
    end
  end

  # The wiki.
  web = Web.create!(name: 'Branch Line Wiki', address: 'wiki')
  adjectives = %w[Absolute Down Facing Ground Loose Outer Single]
  nouns = %w[Block Signal Points Lever Crossing]
  names = ['HomePage'] + adjectives.product(nouns).map(&:join)
  names.each_with_index do |name, number|
    links = [names[(number * 5 + 2) % 28], pick.(names, number).sub('Outer', 'Trap')]
    page = web.pages.create!(name: name, author: pick.(people, number).capitalize, revised_at: opened + number * 3.days,
                             content: "#{pick.(sentences, number)} See #{links.to_sentence}.")
    links.uniq.each { |link| page.wiki_references.create!(referenced_name: link) }
  end
end
