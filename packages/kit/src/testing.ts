export { freePort } from '@oselya/testing';
