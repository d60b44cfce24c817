import { testHostileRequests } from './requests.ts';

await testHostileRequests(0.1);
