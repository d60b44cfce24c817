import { playHostileRequests } from './play.ts';

await playHostileRequests(1);
