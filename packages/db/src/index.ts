export { connect, type ConnectOptions } from './connect.ts';
export type { Database } from './database.ts';
export { DatabaseError, isDatabaseOutage } from './errors.ts';
export {
  acquireLease,
  expireLeases,
  type HeldLease,
  holdLease,
  type Lease,
  leaseIsFree,
  leaseIsHeld,
  LeaseLostError,
  type LeaseRow,
  leaseUntil,
  releaseLease,
  renewLease,
  withLease,
} from './lease.ts';
export { lockFolder, type FolderLock } from './lock.ts';
export {
  append,
  type Log,
  type LogChannel,
  notify,
  openChannel,
  readLog,
  settle,
  tail,
  type TailOptions,
} from './log.ts';
export { migrate, type MigrateOptions, type MigrationResult } from './migrate.ts';
export { offlineDatabase } from './offline-database.ts';
export { ping } from './ping.ts';
export { isPrepared, prepare, prepared, unplanned } from './prepared.ts';
export { retryConflicts } from './retry-conflicts.ts';
export { toVector } from './vector.ts';
