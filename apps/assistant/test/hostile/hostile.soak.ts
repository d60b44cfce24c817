import { testHostileRequests } from './requests.ts';

await testHostileRequests(1);
