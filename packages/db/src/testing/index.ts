export { atEnd } from '@oselya/testing';
export {
  cutConnections,
  fillDataFolder,
  openTestDatabase,
  type TestDatabase,
} from '@oselya/testing/database';
