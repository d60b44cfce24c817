export {
  connect,
  type ConnectOptions,
  type Database,
  createOfflineDatabase,
  ping,
} from './connect.ts';
export { DatabaseError, isDatabaseOutage, retryConflicts } from './errors.ts';
export {
  expireLeases,
  isLeaseFree,
  isLeaseHeld,
  LeaseLostError,
  leaseExpiry,
  runUnderLease,
  withLease,
} from './lease.ts';
export { lockFolder, type FolderLock } from './folder-lock.ts';
export { type Log, notify, assignPositions } from './log.ts';
export { migrate, type MigrateOptions, type MigrationResult } from './migrate.ts';
export { createPreparedStatement, prepared, formatVector, hideFromPlanner } from './statements.ts';
