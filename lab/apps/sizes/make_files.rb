# frozen_string_literal: true

# The files of public/: text that compresses as style sheets and scripts do, and 5 MB of random bytes, always the same.
require 'fileutils'

FileUtils.mkdir_p('public')
line = ->(number) { format(".item-%<number>05d { margin: %<margin>dpx; }\n", number:, margin: number % 40) }
text = ->(bytes) { (1..).lazy.map(&line).each_with_object(+'') { |one, all| break all[0, bytes] if (all << one).size >= bytes } }
File.write('public/small.css', text.call(2_000))
File.write('public/medium.js', text.call(100_000))
File.binwrite('public/large.bin', Random.new(1).bytes(5_000_000))
