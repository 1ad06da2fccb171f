# How many tests may run beside one another. scripts/test and the presets give CTest seven slots a processor, five
# under a sanitizer: most tests wait, for a lease to expire or a server to start, and take one. The others say so
# here, by a regular expression over the test's name.
set(labels cpu servers timing long)

# Computes rather than waits: one of them is enough for a processor.
set(properties_of_cpu PROCESSORS 5)
set(cpu
  "^contract/(EveryEngine|EveryStorageEngine|ManyIdleWaits|StorageLargeRecords)/redis_"
  "^contract/LockContract/(redis|sqlite)_(asio|tls|disturbed|telemetry)"
  "^integration/SqliteProcesses\\."
  "^cli/VariableWriter\\.WhatASlowStore"
  "^cli/JsonText\\."
  "^cli/OperatorsView\\.HasRoomForMoreOwners"
  "^cli/RpcConnection\\.TheAnswersOfABatchHaveALimit"
  "^cli/RunDeath\\.ASignalIsNotLost")

# Starts six servers, then waits for their failover.
set(properties_of_servers PROCESSORS 3)
set(servers "^faults/(SentinelFailover|ClusterFaults)\\.")

# Says how soon something must have happened, within a second or so: it has the machine to itself. Others allow
# for tens of seconds, and only fail if it does not happen at all.
set(properties_of_timing RUN_SERIAL TRUE)
set(timing
  "^cli/RunDeath\\.(KilledHoldfastTakes|StoppedHoldfastLoses|TheLongestHoldEnds|AStoppedCommandIsEndedToo)"
  "^cli/RunTerminal\\.CtrlZPastTheLease"
  "^integration/Facades/GuardLoss\\.WithoutRenewalTheHolderIsToldBeforeItsProofEnds"
  "^integration/RedisWaiting\\.AServerThatDoesNotConfirm")

# Waits for many seconds: begins first, so that nothing has to wait for its end.
set(properties_of_long COST 100)
set(long
  "^cli/RunDeath\\.AStoppedKeeperDoesNotLet"
  "^cli/RunTerminal\\.AfterAStop"
  "^cli/RpcSocket\\.ASignalEndsIt"
  "^cli/(Run|RunDeath|RunTerminal|RpcExamples|TaskCommands|TaskRun)$"
  "^contract/[a-z_]+$"
  "^contract/.*/redis_restarting$"
  "^contract/AfterStorageExpiry/redis_"
  "^faults/(MutualExclusion|SentinelFailover)\\.")

# The suites of the contract that are a test of their own for each variant (see DiscoverTests.cmake): they compute, or
# wait for long. But all suites of a variant share one set of servers where that takes seconds to start.
set(alone
  "^contract/(LockContract|EveryEngine|EveryStorageEngine|ManyIdleWaits|StorageLargeRecords|AfterStorageExpiry)/(memory|sqlite)"
  "^contract/(LockContract|EveryEngine|EveryStorageEngine|ManyIdleWaits|StorageLargeRecords|AfterStorageExpiry)/redis_[^sc]"
  "/redis_restarting$")
