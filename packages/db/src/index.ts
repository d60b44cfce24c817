export {
  connect,
  type ConnectOptions,
  type Database,
  createOfflineDatabase,
  ping,
} from './connect.ts';
export { DatabaseError, isDatabaseOutage, retryConflicts } from './errors.ts';
export {
  acquireLease,
  expireLeases,
  type LeaseHandle,
  runUnderLease,
  type Lease,
  isLeaseFree,
  isLeaseHeld,
  LeaseLostError,
  type LeaseRow,
  leaseExpiry,
  releaseLease,
  renewLease,
  withLease,
} from './lease.ts';
export { lockFolder, type FolderLock } from './lock.ts';
export { appendToLog, type Log, notify, readLog, settleLog } from './log.ts';
export { migrate, type MigrateOptions, type MigrationResult } from './migrate.ts';
export {
  isPrepared,
  createPreparedStatement,
  prepared,
  formatVector,
  hideFromPlanner,
} from './statements.ts';
