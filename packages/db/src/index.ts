export { connect, type ConnectOptions, type Database, offlineDatabase, ping } from './connect.ts';
export { DatabaseError, isDatabaseOutage, retryConflicts } from './errors.ts';
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
export { append, type Log, notify, readLog, settle } from './log.ts';
export { migrate, type MigrateOptions, type MigrationResult } from './migrate.ts';
export { isPrepared, prepare, prepared, toVector, unplanned } from './statements.ts';
