# frozen_string_literal: true

require "open3"
require "test_helper"

class TestHelperTest < Minitest::Test
  def test_a_failure_is_the_status_of_the_whole_run
    { "assert(true)" => 0, "assert(false)" => 1 }.each do |assertion, status|
      test = "class AnyTest < Minitest::Test; def test_it = #{assertion}; end"
      out, ended = Open3.capture2e(RbConfig.ruby, "-I", __dir__, "-r", "test_helper", "-e", test)
      assert_equal status, ended.exitstatus, out
    end
  end
end
