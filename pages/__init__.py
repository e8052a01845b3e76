"""The pages of the lab: each a script that app.py hands to st.navigation, with figures and shared parts beside them."""
