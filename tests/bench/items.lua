-- A load of SKUs for wrk: a batch a request, each with a key of its own.
-- SPDX-License-Identifier: Apache-2.0
--
--	N=1000 KIND=new WAYBILL_KEY=... wrk -t2 -c4 -d8s -s items.lua URL
--
-- KIND  new     items nobody has seen
--       update  the same items again and again, with a higher version
--       replay  the same items again and again, unchanged
--       again   the same requests again and again, with their keys
--
-- The last line is for load.sh: "result ITEMS P50_MS P99_MS WRONG", where
-- ITEMS are items a second in answers that said what KIND is about, and WRONG
-- counts all other answers and broken connections. update and replay find
-- their items only after a first run of them.
--
-- A body is one table.concat(): what differs between batches is its
-- separator. Building it must cost little beside what is measured.

local n = tonumber(os.getenv("N") or "100")
local kind = os.getenv("KIND") or "new"
local key = assert(os.getenv("WAYBILL_KEY"), "WAYBILL_KEY is not set")
local run = os.time()
-- Sets of items taken in turn, so that two batches under way share none.
local SETS = 8

local ITEM = '"name":"A thing of some length for the test %d",' ..
	'"base_uom":"EA","description":"Lorem ipsum dolor sit amet, ' ..
	'consectetur adipiscing elit, sed do eiusmod tempor",' ..
	'"lot_tracked":true,"weight_kg":1.250,' ..
	'"barcodes":["4006381333931"],"temperature_class":"AMBIENT"}'

local threads = {}
local sets, count = {}, 0
right, wrong = 0, 0

function setup(thread)
	thread:set("id", #threads)
	threads[#threads + 1] = thread
end

-- The separator is the beginning of the source_ids.
local function new_parts()
	local parts = {'{"items":[{"source_id":"'}
	for i = 1, n do
		parts[i + 1] = i .. '","source_version":1,' ..
			ITEM:format(i) ..
			(i < n and ',{"source_id":"' or "]}")
	end
	return parts
end

-- The separator is the source_version.
local function held_parts(set)
	local parts, head = {}, '{"source_id":"SKU-%s-%d-%d-%d-%d",' ..
		'"source_version":'
	for i = 1, n do
		parts[i] = (i == 1 and '{"items":[' or "," ..
			ITEM:format(i - 1) .. ",") ..
			head:format(kind, n, id, set, i)
	end
	parts[n + 1] = "," .. ITEM:format(n) .. "]}"
	return parts
end

function init()
	math.randomseed(run * 1000 + id * 7919)
	if kind == "new" then
		sets[1] = new_parts()
		return
	end
	for set = 1, SETS do
		sets[set] = held_parts(set)
	end
end

local function uuid()
	local r = math.random
	return ("%08x-%04x-4%03x-8%03x-%06x%06x"):format(r(0, 2 ^ 31 - 1),
		r(0, 65535), r(0, 4095), r(0, 4095), r(0, 2 ^ 24 - 1),
		r(0, 2 ^ 24 - 1))
end

-- The same in every run.
local function key_of_set()
	return ("%08x-0000-4000-8000-%012x"):format(n, id * SETS + count % SETS)
end

local function body()
	count = count + 1
	if kind == "new" then
		return table.concat(sets[1],
			("SKU-%x-%d-%d-"):format(run, id, count))
	end
	local version = kind == "update" and run * 1000000 + count or 1
	return table.concat(sets[count % SETS + 1],
		("%.0f"):format(version))
end

function request()
	local text = body()
	return wrk.format("POST", "/wms-ingest/v1/master/skus?return=summary", {
		["Authorization"] = "Bearer " .. key,
		["Content-Type"] = "application/json",
		["X-Correlation-Id"] = kind == "again" and key_of_set() or uuid(),
	}, text)
end

local expected = ('"%s":%d,'):format(
	kind == "replay" and "replay" or "accepted", n)

function response(status, _, text)
	if status == 200 and text:find(expected, 1, true) then
		right = right + 1
		return
	end
	wrong = wrong + 1
	if wrong == 1 then
		io.stderr:write("items.lua: ", status, " ", text, "\n")
	end
end

function done(summary, latency)
	local e = summary.errors
	local good, bad = 0, e.connect + e.read + e.write + e.timeout
	for _, thread in ipairs(threads) do
		good = good + thread:get("right")
		bad = bad + thread:get("wrong")
	end
	print(("result %.0f %.2f %.2f %d"):format(
		good * n / (summary.duration / 1e6),
		latency:percentile(50) / 1000, latency:percentile(99) / 1000,
		bad))
end
