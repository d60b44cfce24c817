export { connect, type ConnectOptions } from './connect.ts';
export type { Database, Notify } from './database.ts';
export { DatabaseError, isDatabaseOutage } from './errors.ts';
export { lockFolder, type FolderLock } from './lock.ts';
export { migrate, type MigrateOptions, type MigrationResult } from './migrate.ts';
export { offlineDatabase } from './offline-database.ts';
export { isPrepared, prepare, prepared, unplanned } from './prepared.ts';
export { retryConflicts } from './retry-conflicts.ts';
export { toVector } from './vector.ts';
