# frozen_string_literal: true

# The median of what a script has measured, which is not empty.
def median(values)
  sorted = values.sort
  (sorted[(sorted.size - 1) / 2] + sorted[sorted.size / 2]) / 2.0
end
