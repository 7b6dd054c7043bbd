-- A pandoc filter for pages of the manual. A link to another page of the manual
-- leads to its HTML; a link to any other file of the source becomes plain text;
-- a picture is taken from images/. The metadata `page` is the path of this page,
-- `names` has the HTML files of all pages, as PATH=NAME separated by blanks.
local folder, names = "", {}

local function resolve(path)
  local parts = {}
  for part in (folder .. path):gmatch("[^/]+") do
    if part == ".." then
      table.remove(parts)
    elseif part ~= "." then
      table.insert(parts, part)
    end
  end
  return table.concat(parts, "/")
end

local function read_metadata(meta)
  local text = pandoc.utils.stringify
  folder = text(meta.page):match("^(.*/)") or ""
  for path, name in text(meta.names):gmatch("(%S+)=(%S+)") do
    names[path] = name
  end
end

local function link(el)
  if el.target:match("^%a+:") or el.target:match("^#") then
    return nil
  end
  local path, anchor = el.target:match("^([^#]*)(.*)$")
  local name = names[resolve(path)] or names[resolve(path .. "/README.md")]
  if not name then
    return el.content
  end
  el.target = name .. anchor
  return el
end

local function image(el)
  if el.src:match("^%a+:") then
    return nil
  end
  local path = resolve(el.src)
  el.src = "images/" .. path:gsub("/", "-")
  el.attributes["data-path"] = path
  return el
end

return {{Meta = read_metadata}, {Link = link, Image = image}}
