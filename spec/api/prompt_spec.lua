-- What is seen on a terminal: print, a script from beginning to end, and a session at a prompt.
local p = require "support.pipeline"

after_each(p.clean)

local function lines_of(text)
  local lines = {}
  for line in text:gmatch("([^\n]*)\n") do lines[#lines + 1] = line end
  return lines
end

describe("print", function()
  it("prints values as lines of JSON, with a prefix if there is one", function()
    local out, err, code = p.script([[
      local sc = require "streamckpt"
      local env = sc.env()
      local s = env:from_values { 1, 1.0, "a\n\"b\"", true, { 1, { x = sc.null } }, {}, sc.array(), 2^60 | 0 }
      s:print()
      env:execute()
      local other = sc.env()
      other:from_values { "x" }:print("row> ")
      other:execute()
    ]], p.folder())
    assert.same({ "1", "1.0", [["a\n\"b\""]], "true", [=[[1,{"x":null}]]=], "{}", "[]", "1152921504606846976",
                  'row> "x"' }, lines_of(out))
    assert.same({ "", 0 }, { err, code })
  end)

  it("does not tear lines where several slots print, and functions in them, too", function()
    local out, err = p.script([[
      local sc = require "streamckpt"
      local env = sc.env { parallelism = 4 }
      env:from_generator { count = 4000, fn = function(i) return ("s"):rep(i % 300) end }:print("p ")
      env:from_generator { count = 4000 }
        :sink(function(i, ctx) print("f", i, ctx.subtask, ("x"):rep(i % 300)) end)
      env:execute()
    ]], p.folder())
    local printed, seen = 0, {}
    for _, line in ipairs(lines_of(out)) do
      local i, rest = line:match("^f\t(%d+)\t[0-3]\t(x*)$")
      if i then
        assert.equals(tonumber(i) % 300, #rest)
        assert.is_nil(seen[i])
        seen[i] = true
      else
        assert.matches('^p "s*"$', line)
        printed = printed + 1
      end
    end
    local n = 0
    for _ in pairs(seen) do n = n + 1 end
    assert.same({ 4000, 4000, "" }, { printed, n, err })
  end)

  it("in a function prints what Lua's print prints", function()
    local out = p.script([[
      local sc = require "streamckpt"
      local env = sc.env()
      env:from_values { { 1 } }:sink(function(v, ctx)
        print()
        print(nil, true, 1, 1.0, "x", setmetatable({}, { __tostring = function() return "me" end }))
        print(ctx)
      end)
      env:execute()
    ]], p.folder())
    assert.equals("\nnil\ttrue\t1\t1.0\tx\tme\n", out:sub(1, 21))
    assert.matches("^ctx of sink at script.lua:3 ", out:sub(22))
  end)

  it("may be replaced by the script for its functions", function()
    local out = p.script([[
      local sc = require "streamckpt"
      local plain = print
      function print(...) plain("[mine]", ...) end
      local env = sc.env()
      env:from_values { 1 }:sink(function(v) print(v) end)
      env:execute()
    ]], p.folder())
    assert.equals("[mine]\t1\n", out)
  end)
end)

describe("a script", function()
  it("that fails ends with the sentence, its place, and an exit code", function()
    local out, err, code = p.script([[
      local sc = require "streamckpt"
      local env = sc.env()
      env:from_values { 1, 2 }
        :map(function(n)
          return n.value + 1
        end)
        :print()
      env:execute()
      print("never reached")
    ]], p.folder())
    assert.equals("", out)
    assert.equals(1, code)
    assert.matches("script.lua:5: attempt to index a number value", err, 1, true)
    assert.matches("map at script.lua:3 ", err, 1, true)
    assert.matches("record: 1", err, 1, true)
    assert.matches("script.lua:8: job 'script' failed: EUSER: ", err, 1, true)
  end)

  it("may end while its job runs: the job ends with it", function()
    for _, last in ipairs { "", "os.exit(7)", "os.exit(7, true)", "error('enough', 0)" } do
      local out, _, code = p.script([[
        local sc = require "streamckpt"
        local env = sc.env { parallelism = 2 }
        env:from_generator {}:map(function(n) return n end):filter(function() return false end):print()
        local job = assert(env:start())
        while job:status().state ~= "running" do job:wait(1) end
        print(job)
        ]] .. last, p.folder())
      assert.equals("streamckpt.job<script, running>\n", out)
      assert.equals(last == "" and 0 or last:find("error") and 1 or 7, code)
    end
  end)

  it("may be collected with the job still running, and jobs may be many", function()
    local out, err, code = p.script([[
      local sc = require "streamckpt"
      local total = 0
      for i = 1, 30 do
        local env = sc.env { id = "job" .. i }
        env:from_generator { count = i }:collect():uid("out")
        local job = assert(env:start())
        if i % 3 == 0 then
          assert(job:wait())
          total = total + #job:rows("out")
        end
        job = nil
        collectgarbage()
      end
      print(total)
    ]], p.folder())
    assert.same({ "165\n", "", 0 }, { out, err, code })
  end)
end)

describe("at a prompt", function()
  -- What a prompt answers to each line. (Some prompts echo what they read; that is left out.)
  local function session(input)
    local typed, marked = {}, {}
    for _, line in ipairs(lines_of(input)) do
      marked[#marked + 1] = line
      marked[#marked + 1] = 'do io.write("@@@\\n") end'
    end
    for _, line in ipairs(marked) do typed[line] = true end
    local out = p.script("_PROMPT, _PROMPT2 = '', ''", p.folder(), table.concat(marked, "\n") .. "\n", "-i")
    local answers, answer = {}, {}
    for _, line in ipairs(lines_of(out)) do
      if line:find("^@@@$") then
        answers[#answers + 1] = table.concat(answer, "\n")
        answer = {}
      elseif not typed[line] and not line:find("^Lua 5%.4") and not line:find("^file '@") then
        answer[#answer + 1] = line
      end
    end
    return answers
  end

  it("everything says what it is", function()
    local answers = session [[
sc = require "streamckpt"
sc
env = sc.env { name = "words" }
env
lines = env:from_values { "b a", "b" }
lines
words = lines:flat_map(function(l, ctx) for w in l:gmatch("%a") do ctx:emit { w = w, n = 1 } end end):uid("split")
words
counts = words:key_by("w"):reduce(function(a, b) return { w = a.w, n = a.n + b.n } end):uid("counts")
counts
words:key_by("w")
words:union(lines)
words:side("errors")
counts:collect():uid("out")
result = env:execute()
result
result:rows("out")
result:rows("out")[1]
result:status()
result:checkpoints().counts
result:metrics("split").numRecordsOut
job = env:start()
job:wait()
job
sc.value()
sc.array { 1, sc.array {} }
empty = sc.env()
empty:from_values({}):collect():uid("none")
empty:execute():rows("none")
]]
    local expected = {
      "", "streamckpt 0.1.0", "", "streamckpt.env<words, 0 operators>", "",
      "streamckpt.stream<from_values (stdin:1)>", "", "streamckpt.stream<flat_map 'split'>", "",
      "streamckpt.stream<reduce 'counts'>", "streamckpt.stream<flat_map 'split', keyed>",
      "streamckpt.stream<flat_map 'split' + from_values (stdin:1)>",
      "streamckpt.stream<flat_map 'split', side 'errors'>", "streamckpt.sink<collect 'out'>", "",
      "streamckpt.result<words, finished>",
      '{ { n = 1, w = "b" }, { n = 1, w = "a" }, { n = 2, w = "b" } }', '{ n = 1, w = "b" }', "finished",
      "{ completed = 0, failed = 0, in_progress = 0, restored = 0, triggered = 0 }", "3", "", "finished",
      "streamckpt.job<words, finished>", "streamckpt.state<value>", "{ 1, {} }", "",
      "streamckpt.sink<collect 'none'>", "{}",
    }
    for i, answer in ipairs(expected) do assert.equals(answer, answers[i]) end
  end)

  it("mistakes are sentences", function()
    local _, err = p.script("_PROMPT = ''", p.folder(), [[
sc = require "streamckpt"
sc.enviroment()
env = sc.env { paralelism = 2 }
env = sc.env()
env:from_fiel("x")
s = env:from_values { 1 }
s.map(function() end)
s:map(5)
s:window(1)
s:reduce(print)
x = s:map(print):uid("a"):uid(7)
env:execute { form = "latest" }
]], "-i")
    for _, sentence in ipairs {
      "streamckpt has no 'enviroment'\n", "sc.env: unknown option 'paralelism'; did you mean 'parallelism'?",
      "an env has no method 'from_fiel'; did you mean 'from_file'?", "write stream:map(...), with a colon",
      "map needs a function, got 5", "stream:window is not built yet", "reduce needs key_by before it",
      "uid needs a string, got 7", "unknown option 'form'; did you mean 'from'?",
    } do
      assert.matches(sentence, err, 1, true)
    end
  end)
end)
