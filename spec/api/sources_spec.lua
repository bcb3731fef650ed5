-- Where values come from, as a script sees it.
local p = require "support.pipeline"

after_each(p.clean)

describe("from_file", function()
  it("gives lines without their ends, and the last one also without an end", function()
    local path = p.write(p.folder() .. "/in", "a\n\nb c\r\nlast")
    assert.same({ "a", "", "b c", "last" }, p.rows({}, function(env)
      return env:from_file(path):map(function(line) return (line:gsub("\r$", "")) end)
    end))
  end)

  it("gives file and number of each line when it is asked for the position", function()
    local path = p.write(p.folder() .. "/in", "a\nb\n")
    assert.same({ { text = "a", file = path, line = 1 }, { text = "b", file = path, line = 2 } },
      p.rows({}, function(env) return env:from_file(path, { position = true }) end))
  end)

  it("deals several files to its tasks; each line comes once, those of a file in order", function()
    local folder, paths = p.folder(), {}
    for i = 1, 5 do
      local lines = {}
      for k = 1, 200 do lines[k] = ("%d %d\n"):format(i, k) end
      paths[i] = p.write(folder .. "/" .. i, table.concat(lines))
    end
    local rows = p.rows({ parallelism = 3 }, function(env)
      return env:from_file(paths):map(function(line, ctx) return { line = line, task = ctx.subtask } end)
    end)
    assert.equals(1000, #rows)
    local next_line, tasks = { 1, 1, 1, 1, 1 }, {}
    for _, row in ipairs(rows) do
      local file, k = row.line:match("(%d) (%d+)")
      assert.equals(next_line[tonumber(file)], tonumber(k))
      next_line[tonumber(file)] = tonumber(k) + 1
      tasks[file] = tasks[file] or row.task
      assert.equals(tasks[file], row.task, "a file was read by two tasks")
    end
    assert.same({ 201, 201, 201, 201, 201 }, next_line)
  end)

  it("of an empty file, and of no lines at all, ends with nothing", function()
    local path = p.write(p.folder() .. "/empty", "")
    local rows, result = p.rows({ parallelism = 2 }, function(env) return env:from_file(path) end)
    assert.same({}, rows)
    assert.equals("finished", result:status().state)
  end)

  it("keeps bytes as they are", function()
    local path = p.write(p.folder() .. "/in", "\0\255\xc3\x28\n")
    assert.same({ "\0\255\xc3\x28" }, p.rows({}, function(env) return env:from_file(path) end))
  end)

  it("names a file that is missing", function()
    local path = p.folder() .. "/nowhere"
    local message = p.failure({}, function(env) return env:from_file(path):uid("log") end)
    assert.matches(path, message, 1, true)
    assert.matches("there is no file", message, 1, true)
    assert.matches("[log]", message, 1, true)
  end)
end)

describe("from_values", function()
  it("gives values of every kind, in order", function()
    local values = { "a", 1, 1.5, true, false, { x = { 1, 2 } }, {} }
    assert.same(values, p.rows({}, function(env) return env:from_values(values) end))
  end)

  it("of nothing, ends", function()
    local rows, result = p.rows({ parallelism = 2 }, function(env)
      return env:from_values {}:key_by(function(v) return v end):reduce(function(a) return a end):uid("r")
    end)
    assert.same({}, rows)
    assert.equals("finished", result:status().state)
  end)
end)

describe("from_generator", function()
  it("counts from 0 without a function", function()
    assert.same({ 0, 1, 2, 3, 4 }, p.sorted({ parallelism = 2 }, function(env)
      return env:from_generator { count = 5 }
    end))
  end)

  it("emits what its function makes, and nothing for nil", function()
    assert.same({ 1, 9, 25 }, p.sorted({ parallelism = 3 }, function(env)
      return env:from_generator { count = 6, fn = function(i) return i % 2 == 1 and i * i or nil end }
    end))
  end)

  it("of nothing ends", function()
    assert.same({}, p.rows({}, function(env) return env:from_generator { count = 0 } end))
  end)

  it("keeps to its rate", function()
    -- Only a lower bound can be told on a busy machine: 20 values at 100 a second take 190 ms or more.
    local rows = p.rows({}, function(env)
      return env:from_generator { count = 20, rate = 100 }
        :process(function(ctx) ctx:emit(ctx:now()) end)
    end)
    assert.equals(20, #rows)
    assert.is_true(rows[20] - rows[1] >= 150, rows[20] - rows[1])
  end)

  it("names the index at which its function fails", function()
    assert.matches("index: 3", p.failure({}, function(env)
      return env:from_generator { count = 5, fn = function(i) return i < 3 and i or error("no more") end }
    end), 1, true)
  end)
end)

describe("source", function()
  it("reads splits from position to position", function()
    local rows = p.sorted({ parallelism = 2 }, function(env)
      return env:source {
        uid = "s", splits = function() return { { from = 1, to = 3 }, { from = 10, to = 12 } } end,
        read = function(ctx, split, position)
          position = position or split.from
          if position > split.to then return nil end
          ctx:emit(position)
          return position + 1
        end,
      }
    end)
    assert.same({ 1, 2, 3, 10, 11, 12 }, rows)
  end)

  it("may emit nothing or many values a read, with times of their own", function()
    local rows = p.rows({}, function(env)
      return env:source {
        uid = "s", splits = function() return { "x" } end,
        read = function(ctx, split, n)
          n = (n or 0) + 1
          for i = 1, n - 1 do ctx:emit(split .. i, n * 1000) end
          return n < 3 and n or nil
        end,
      }:process(function(ctx, v) ctx:emit(v .. "@" .. ctx.timestamp) end)
    end)
    assert.same({ "x1@2000", "x1@3000", "x2@3000" }, rows)
  end)

  it("may ask to wait before the next read", function()
    assert.same({ 1, 2, 3 }, p.rows({}, function(env)
      return env:source {
        uid = "s", splits = function() return { 0 } end,
        read = function(ctx, _, n)
          n = (n or 0) + 1
          ctx:emit(n)
          if n == 3 then return nil end
          return n, 1
        end,
      }
    end))
  end)

  it("without splits ends, and opens and closes all the same", function()
    local folder = p.folder()
    local rows = p.rows({}, function(env)
      return env:source {
        uid = "s", splits = function() return {} end, read = function() error("never called") end,
        open = function() io.open(folder .. "/opened", "w"):close() end,
        close = function() io.open(folder .. "/closed", "w"):close() end,
      }
    end)
    assert.same({}, rows)
    assert.same({ folder .. "/closed", folder .. "/opened" }, p.files(folder))
  end)

  it("names itself and the split where reading fails", function()
    local message = p.failure({}, function(env)
      return env:source {
        uid = "s", splits = function() return { "part-7" } end,
        read = function(_, _, n) return n and error("torn page") or 5 end,
      }
    end)
    assert.matches("s (s) 1/1: ", message, 1, true)
    assert.matches("torn page", message, 1, true)
    assert.matches('split: "part-7", position: 5', message, 1, true)
  end)

  it("refuses what cannot be a list of splits", function()
    assert.matches("must return an array of plain values, not a nil", p.failure({}, function(env)
      return env:source { uid = "s", splits = function() end, read = function() end }
    end), 1, true)
  end)

  it("tells what 'splits' raises, by its text or else by its type", function()
    local function raising(object)
      return p.failure({}, function(env)
        return env:source { uid = "s", splits = function() error(object, 0) end, read = function() end }
      end)
    end
    assert.matches("EUSER: no such place\n", raising("no such place"), 1, true)
    assert.matches("EUSER: (error object is a table value)\n", raising({ code = 3 }), 1, true)
    assert.matches("EUSER: (error object is a nil value)\n", raising(nil), 1, true)
  end)

  it("is asked for its splits once, in one slot", function()
    local folder = p.folder()
    p.run({ parallelism = 3 }, function(env)
      return env:source {
        uid = "s", read = function() end,
        splits = function()
          local f = io.open(folder .. "/calls", "a")
          f:write("x")
          f:close()
          return { 1, 2, 3, 4 }
        end,
      }
    end)
    assert.equals("x", p.read(folder .. "/calls"))
  end)
end)
