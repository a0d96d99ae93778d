-- Checks a job's GPU memory before it is queued. A job states what it trains in its comment:
--   sbatch --comment="highwater: model=resnet50 batch=32 optimizer=adamw" ...
-- A job that fits on none of the GPUs it may get is refused, one that shares a GPU gets shards of 1 GiB, and every
-- other job stays as it is. Needs luasocket (Debian: lua-socket) and nothing else. Lua 5.1 to 5.4.

local M = {}

-- ESLURM_INVALID_GRES of slurm_errno.h, which Slurm's Lua does not name.
local INVALID_GRES = 2072

-- JSON ---------------------------------------------------------------------------------------------------------------

local ESCAPES = { ['"'] = '\\"', ["\\"] = "\\\\" }

local function quoted(text)
	local escaped = text:gsub('[%c"\\]', function(c)
		return ESCAPES[c] or ("\\u%04x"):format(c:byte())
	end)
	return '"' .. escaped .. '"'
end

local function list(texts)
	local values = {}
	for i, text in ipairs(texts) do
		values[i] = quoted(text)
	end
	return "[" .. table.concat(values, ",") .. "]"
end

local UNESCAPED = { b = "\b", f = "\f", n = "\n", r = "\r", t = "\t" }

local function utf8_of(code)
	if code < 0x80 then
		return string.char(code)
	elseif code < 0x800 then
		return string.char(0xC0 + math.floor(code / 0x40), 0x80 + code % 0x40)
	end
	local middle = 0x80 + math.floor(code / 0x40) % 0x40
	return string.char(0xE0 + math.floor(code / 0x1000), middle, 0x80 + code % 0x40)
end

-- A value and where it ends. `null` is nil, so that a key with it is missing.
local function decode(text, at)
	at = text:find("%S", at) or error("the answer ends early")
	local first = text:sub(at, at)
	if first == '"' then
		local parts = {}
		at = at + 1
		while true do
			local stop = text:find('["\\]', at) or error("a text of the answer has no end")
			parts[#parts + 1] = text:sub(at, stop - 1)
			if text:sub(stop, stop) == '"' then
				return table.concat(parts), stop + 1
			end
			local code = text:match("^u(%x%x%x%x)", stop + 1)
			if code then
				parts[#parts + 1], at = utf8_of(tonumber(code, 16)), stop + 6
			else
				local c = text:sub(stop + 1, stop + 1)
				parts[#parts + 1], at = UNESCAPED[c] or c, stop + 2
			end
		end
	elseif first == "{" or first == "[" then
		local close, found, key = first == "{" and "}" or "]", {}, 0
		at = text:find("%S", at + 1)
		if text:sub(at, at) == close then
			return found, at + 1
		end
		while true do
			if close == "}" then
				key, at = decode(text, at)
				at = text:match("^%s*:()", at) or error("a key of the answer has no value")
			else
				key = key + 1
			end
			found[key], at = decode(text, at)
			local mark, after = text:match("^%s*(%p)()", at)
			if mark == close then
				return found, after
			elseif mark ~= "," then
				error("the answer is no JSON")
			end
			at = after
		end
	end
	local word, after = text:match("^([%w.+-]+)()", at)
	if word == "true" or word == "false" then
		return word == "true", after
	elseif word == "null" then
		return nil, after
	end
	return tonumber(word) or error("the answer is no JSON"), after
end

-- The server ---------------------------------------------------------------------------------------------------------

local function connect(server, timeout)
	local path = server:match("^unix:(.+)$")
	local socket
	if path then
		local unix = require("socket.unix")
		socket = assert((type(unix) == "table" and unix.stream or unix)())
	else
		socket = assert(require("socket").tcp())
	end
	socket:settimeout(timeout, "t")
	local done, why
	if path then
		done, why = socket:connect(path)
	else
		local host, port = server:match("^(.+):(%d+)$")
		done, why = socket:connect(host, tonumber(port))
	end
	if not done then
		socket:close()
		error("no server at " .. server .. ": " .. why, 0)
	end
	return socket
end

-- The answer to a job. Raises an error, a sentence, where there is none.
local function ask(job, site)
	local clock = require("socket").gettime
	local deadline = clock() + site.timeout
	local socket = connect(site.server, site.timeout)
	local function within(done, why)
		if not done then
			socket:close()
			error("no answer from " .. site.server .. ": " .. why, 0)
		end
		-- Zero would be no limit.
		socket:settimeout(math.max(deadline - clock(), 0.001), "t")
		return done
	end
	within(socket:send("POST /v1/estimate HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\n"
		.. "Content-Length: " .. #job .. "\r\n\r\n" .. job))
	local text = within(socket:receive("*a"))
	socket:close()
	local status, body = text:match("^HTTP/%S+ (%d+).-\r\n\r\n(.*)$")
	local is_json, answer = pcall(decode, body or "", 1)
	if is_json and type(answer) == "table" and answer.error then
		error(answer.error.message or "the server refused the job", 0)
	elseif status ~= "200" or not is_json then
		error("the server answered with status " .. (status or "none"), 0)
	end
	return answer
end

-- The job --------------------------------------------------------------------------------------------------------------

-- What a job asks for: types and count of whole GPUs, shards, and everything else as it is.
local function requested(job)
	local found = { types = {}, gpus = 0, shards = 0, others = {} }
	for _, field in ipairs({ "tres_per_node", "tres_per_job", "tres_per_socket", "tres_per_task" }) do
		for entry in (job[field] or ""):gmatch("[^,]+") do
			local name, rest = entry:match("^gres[:/](%w+)[:=]?(.*)$")
			rest = rest or ""
			-- TYPE:COUNT, COUNT or TYPE.
			local kind, count = rest:match("^(.+)[:=](%d+)$")
			if not count then
				count = rest:match("^%d+$")
				kind = not count and rest ~= "" and rest or nil
			end
			count = tonumber(count or 1)
			if name == "gpu" then
				found.gpus = found.gpus + count
				found.types[#found.types + 1] = kind
			elseif name == "shard" then
				found.shards = found.shards + count
			elseif field == "tres_per_node" then
				found.others[#found.others + 1] = entry
			end
		end
	end
	return found
end

-- The GPUs that a job may get: of the types it asks for, else of its features, else of its partitions.
local function devices_of(job, request, site)
	local devices, seen = {}, {}
	local function add(name, is_known)
		local id = site.gpus[name] or (is_known and name)
		if id and not seen[id] then
			seen[id], devices[#devices + 1] = true, id
		end
	end
	for _, name in ipairs(request.types) do
		add(name, true)
	end
	if #devices == 0 then
		for feature in (job.features or ""):gmatch("[%w_.-]+") do
			add(feature, false)
		end
	end
	if #devices == 0 then
		for partition in (job.partition or site.default_partition or ""):gmatch("[^,]+") do
			for _, name in ipairs(site.partitions[partition] or {}) do
				add(name, true)
			end
		end
	end
	return devices
end

-- What a job that fits is given.
local function share(job, request, shards, tell)
	if request.gpus > 0 then
		tell("It could share its GPU with others: --gres=shard:" .. shards .. " is enough.")
	elseif request.shards < shards then
		local entries = { "gres:shard:" .. shards }
		for _, entry in ipairs(request.others) do
			entries[#entries + 1] = entry
		end
		job.tres_per_node = table.concat(entries, ",")
		tell("It gets --gres=shard:" .. shards .. ", 1 GiB each.")
	end
end

local function check(job, words, site, tell)
	local request = requested(job)
	local devices = devices_of(job, request, site)
	if #devices == 0 then
		error("it is unknown which GPUs the job may get", 0)
	elseif request.gpus > 1 and not words:find("gpus[\"%s]*[=:]") then
		error("the job asks for " .. request.gpus .. " GPUs, and its comment has no gpus=", 0)
	end
	local answer = ask('{"devices":' .. list(devices) .. ',"words":' .. quoted(words) .. "}", site)
	local failing, shards, is_sure = {}, 0, true
	for _, device in ipairs(answer.devices) do
		if device.verdict == "does-not-fit" then
			failing[#failing + 1] = device.sentence
		else
			is_sure = is_sure and device.requests ~= nil and device.requests.is_sure
			shards = math.max(shards, device.requests and device.requests.shards or 0)
			tell(device.sentence)
		end
	end
	if #failing == #answer.devices then
		tell(table.concat(failing, "\n"))
		return INVALID_GRES
	elseif is_sure then
		share(job, request, shards, tell)
	else
		tell("That is not sure, so the job stays as it is.")
	end
	return slurm.SUCCESS
end

-- Called for each job. An error never stops a job.
function M.submit(job, site)
	local words = (job.comment or ""):match("highwater:%s*(.+)$")
	if not words then
		return slurm.SUCCESS
	end
	local function tell(text)
		slurm.log_user("%s", text)
	end
	local went, result = pcall(check, job, words, site, tell)
	if went then
		return result
	end
	tell("Highwater did not check this job: " .. tostring(result) .. ".")
	slurm.log_info("highwater: job of user %s not checked: %s", tostring(job.user_id), tostring(result))
	return slurm.SUCCESS
end

return M
