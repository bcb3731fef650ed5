-- word_count: how often each word occurs. The smallest pipeline with state.
--
--   lua5.4 examples/word_count.lua [WORDS ...]

local sc = require "streamckpt"

local env = sc.env { name = "word count", parallelism = 2 }

env:from_values(#arg > 0 and arg or {
    "to be or not to be that is the question",
    "whether tis nobler in the mind to suffer",
    "the slings and arrows of outrageous fortune",
  })
  :flat_map(function(line, ctx)
    for word in line:lower():gmatch("%a+") do ctx:emit { word = word, n = 1 } end
  end)
  :key_by("word")
  :reduce(function(a, b) return { word = a.word, n = a.n + b.n } end)
  :collect():uid("counts")

-- reduce emits the count so far at each word; the last one of a word is the whole.
local counts, words = {}, {}
for _, row in ipairs(env:execute():rows("counts")) do
  if not counts[row.word] then words[#words + 1] = row.word end
  counts[row.word] = row.n
end
table.sort(words, function(a, b)
  if counts[a] ~= counts[b] then return counts[a] > counts[b] end
  return a < b
end)
for _, word in ipairs(words) do print(("%4d %s"):format(counts[word], word)) end
