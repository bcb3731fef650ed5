local probe = require "streamckpt.probe"

describe("registry", function()
  it("finds every native type by its name and says what it promises", function()
    local expected = {
      file_source = { is_source = true, in_pool = true, replayable = true, exactly_once = true },
      values_source = { is_source = true, in_pool = true, replayable = true, exactly_once = true },
      watermarks = { is_source = false, in_pool = false, replayable = true, exactly_once = true },
      file_sink = { is_source = false, in_pool = false, replayable = true, exactly_once = true },
      collect_sink = { is_source = false, in_pool = false, replayable = true, exactly_once = true },
      print_sink = { is_source = false, in_pool = false, replayable = true, exactly_once = false },
    }
    for kind, promise in pairs(expected) do
      promise.kind = kind
      assert.same(promise, probe.operator_type(kind))
    end
  end)

  it("knows no other", function()
    for _, kind in ipairs { "", "a", "file", "file_sinks", "zzz", "map" } do
      assert.is_nil(probe.operator_type(kind))
    end
  end)
end)
