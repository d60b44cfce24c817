import react from '@vitejs/plugin-react';
import { defineConfig } from 'vite';

export default defineConfig({
  base: '/app/',
  plugins: [react()],
  // The assistant replaces the placeholder in every answer.
  html: { cspNonce: '{{nonce}}' },
  build: {
    target: 'es2023',
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    manifest: 'manifest.json',
  },
});
