import { playHostileRequests } from './play.ts';

await playHostileRequests(0.1);
