"""The pages of the lab. Each is a script that app.py hands to st.navigation; figures and shared parts live beside them."""
