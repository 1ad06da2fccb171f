'use strict';

const form = document.getElementById('login');
const token = document.getElementById('token');
const problem = document.getElementById('problem');

form.addEventListener('submit', async (event) => {
  event.preventDefault();
  problem.textContent = '';
  try {
    const response = await fetch('/login', {
      method: 'POST',
      headers: {'Content-Type': 'application/json'},
      body: JSON.stringify({token: token.value.trim()}),
    });
    if (response.ok) {
      location.reload();
      return;
    }
    const body = await response.json();
    problem.textContent = `Not logged in: ${body.error.message}.`;
  } catch {
    problem.textContent = 'The server does not answer. Try again.';
  }
  token.select();
});
