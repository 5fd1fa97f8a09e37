/**
 * Builds the portal into portal/dist: hashed files below /assets, and the page itself, in which the service puts a fresh CSP nonce each time it
 * answers it. `npm run portal` serves the sources with a service on port 3000 behind them.
 */
import react from '@vitejs/plugin-react';
import { defineConfig } from 'vite';

const SERVICE = process.env.PORTAL_SERVICE ?? 'http://localhost:3000';
/** What belongs to the page while it is developed; everything else is the service's. */
const OWN = /^\/(?:$|app(?:\/|$)|welcome|reset|sign-in|src\/|@|node_modules\/|assets\/|clients\/)/;

export default defineConfig({
  root: import.meta.dirname,
  // Files find each other by relative addresses; the service completes those in the page, below the path of its base URL.
  base: './',
  plugins: [react()],
  build: {
    outDir: 'dist',
    emptyOutDir: true,
    target: 'es2023',
    modulePreload: { polyfill: false },
    // Data URLs would need an exception in the Content-Security-Policy.
    assetsInlineLimit: 0,
    reportCompressedSize: false,
    chunkSizeWarningLimit: 800,
    // The editor by its name: it comes after the page of a template stands.
    rolldownOptions: {
      output: { codeSplitting: { groups: [{ name: 'codemirror', test: /node_modules\/(?:@codemirror|@lezer)\// }] } },
    },
  },
  server: {
    fs: { allow: ['..'] },
    proxy: { '^/.*': { target: SERVICE, bypass: ({ url }) => (OWN.test(url ?? '') ? url : undefined) } },
  },
});
