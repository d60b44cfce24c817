export { isAllowEntry, type Lookup } from './address.ts';
export { type Answer, createSafeFetch, firstOf, type SafeFetch } from './fetch.ts';
export { FetchError } from './fetch-error.ts';
