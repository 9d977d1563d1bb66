-- Drives Neovim's own client: sees the diagnostics of a file, applies the fix at one of them, and saves.
-- Writes what was seen to the file $SEEN as JSON, and the screens, before and after, to $SCREENS.

local line, title = tonumber(vim.env.LINE), vim.env.TITLE
local seen = { before = {}, after = {} }
local screens = {}

local function finish(message)
  seen.failure = message
  vim.fn.writefile({ vim.fn.json_encode(seen) }, vim.env.SEEN)
  vim.fn.writefile(screens, vim.env.SCREENS)
  vim.cmd("qall!")
end

local function diagnostics()
  local found = {}
  for _, diagnostic in ipairs(vim.diagnostic.get(0)) do
    table.insert(found, { code = diagnostic.code, line = diagnostic.lnum + 1 })
  end
  return found
end

local function capture()
  vim.cmd("redraw!")
  for row = 1, vim.o.lines - 2 do
    local cells = {}
    for column = 1, vim.o.columns do
      cells[column] = vim.fn.screenstring(row, column)
    end
    table.insert(screens, (table.concat(cells):gsub("%s+$", "")))
  end
end

local function has(wanted)
  return function()
    for _, diagnostic in ipairs(diagnostics()) do
      if diagnostic.line == line and diagnostic.code == vim.env.CODE then
        return wanted
      end
    end
    return not wanted and #vim.lsp.get_active_clients() > 0
  end
end

vim.o.columns, vim.o.lines = 118, 18
vim.o.signcolumn, vim.o.number, vim.o.laststatus = "yes", true, 0
vim.cmd("edit " .. vim.env.FILE)
vim.cmd(tostring(line))
vim.cmd("normal! zz")
if not vim.wait(60000, has(true), 50) then
  return finish("no diagnostics")
end
seen.before = diagnostics()
capture()
table.insert(screens, "")

local client = vim.lsp.get_active_clients()[1]
local where = vim.lsp.util.make_range_params()
where.context = { diagnostics = {} }
local answers = vim.lsp.buf_request_sync(0, "textDocument/codeAction", where, 60000)
for _, answer in pairs(answers or {}) do
  for _, action in ipairs(answer.result or {}) do
    if action.title:find(title, 1, true) then
      vim.lsp.util.apply_workspace_edit(action.edit, client.offset_encoding)
      seen.applied = action.title
      break
    end
  end
end
if not seen.applied then
  return finish("no such action")
end
if not vim.wait(60000, has(false), 50) then
  return finish("the finding stays")
end
vim.wait(300)
seen.after = diagnostics()
capture()
vim.cmd("write")
finish(nil)
