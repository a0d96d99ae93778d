-- Slurm runs this for every job that is submitted: it asks Highwater what the job needs (docs/schedulers.md).
-- The settings of this site; highwater.lua next to this file does the rest.

local highwater = dofile("/etc/slurm/highwater.lua")

local site = {
	-- Where `highwater serve` listens: a Unix socket, or "127.0.0.1:8080".
	server = "unix:/run/highwater/highwater.sock",
	-- Seconds. slurmctld takes no other job meanwhile.
	timeout = 2,
	-- Types and features of GPUs in slurm.conf, and what Highwater calls them (`highwater devices`).
	gpus = { t4 = "t4", a100 = "a100-80gb", h100 = "h100-80gb" },
	-- The GPUs of each partition, for jobs that name none.
	partitions = { gpu = { "t4" } },
	-- The partition of jobs that name none.
	default_partition = "gpu",
}

function slurm_job_submit(job, _, _)
	return highwater.submit(job, site)
end

function slurm_job_modify(_, _, _, _)
	return slurm.SUCCESS
end

return slurm.SUCCESS
